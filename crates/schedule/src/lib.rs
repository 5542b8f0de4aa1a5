//! Witness schedules and the independent checker
