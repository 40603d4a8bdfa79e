//! `lab-scrape up` sets up the link of a lab to itself; `lab-scrape ADDRESS:PORT` prints what a server says there
//! under `/metrics`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::{Result, bail};
use vmnoise_labs::links::Links;
use vmnoise_labs::metrics::scrape;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["up"] => Links::here()?.set_up("lo", None),
        [host] => {
            print!("{}", scrape(host)?);
            Ok(())
        }
        _ => bail!("usage: lab-scrape up | lab-scrape ADDRESS:PORT"),
    }
}
