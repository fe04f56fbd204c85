"""Files and frames: from outside into codes, and back into labels. pyarrow is loaded when it is needed.

In: files and frames, encode (by lookup), scan. Out: output, decode (bins drawn from a pool of public values).
public_source and tally read public data for proposals and draws; whole_file writes whole files or none.
"""
