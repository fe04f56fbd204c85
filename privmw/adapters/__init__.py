"""Other libraries of the field, one file each: this room knows whatever it needs, and no other room knows it.

A file here imports its library when it is itself imported, and `import privmw` imports none of them. What
they take and give is public or released: private records enter privmw through a table, and only a curator
sees their counts.
"""
