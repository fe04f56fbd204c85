"""How a support grows: rows that the public table lacks, proposed by the fit itself. Released values only."""
