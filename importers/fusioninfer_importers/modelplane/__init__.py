"""Modelplane: ModelDeployment, as released and as proposed for disaggregation."""
