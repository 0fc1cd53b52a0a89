"""Training of residual models: simulated logs in, bundles out. The only package that knows torch."""
