"""Adding rows that the public table lacks, proposed by the fit. Released values only."""
