//! The pipeline from trace to verified findings
