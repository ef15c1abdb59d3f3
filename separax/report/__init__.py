"""Records, figures and pages."""
