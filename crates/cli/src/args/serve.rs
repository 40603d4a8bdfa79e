//! `vmnoise serve`.

use std::ffi::OsString;

use clap::Args;

/// What `vmnoise-serve` is given.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Options of `vmnoise-serve`: see `vmnoise serve --help`
    #[arg(
        value_name = "OPTION",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub options: Vec<OsString>,
}
