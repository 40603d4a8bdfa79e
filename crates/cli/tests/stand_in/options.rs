//! The options of rtla.
