"""No regression unseen: work, instructions, paired times and errors of a commit, and their history.

`python -m benches.track` says what there is; benches/README.md explains. This process runs other programs and
never imports privmw: a build is named by its interpreter, so that any commit can be measured by this code.
"""
