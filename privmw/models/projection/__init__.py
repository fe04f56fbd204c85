"""The solver of projections: Newton's method with a certificate. It knows numbers only."""
