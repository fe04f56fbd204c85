"""Files and frames: converts values to codes and codes to values. pyarrow is imported late.

In: files and frames, encode (by lookup), scan. Out: output, decode (with values of public_records).
public_source and tally read public data for proposals and draws; whole_file writes files atomically.
"""
