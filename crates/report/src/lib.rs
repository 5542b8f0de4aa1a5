//! Terminal text and machine output for findings
