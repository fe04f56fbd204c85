"""Other libraries, one file each: dp_accounting, mbi, OpenDP.

A file here imports its library when it is itself imported, and `import privmw` imports none of them. What
they take and give is public or released: private records enter privmw through a table, and only a curator
sees their counts.
"""
