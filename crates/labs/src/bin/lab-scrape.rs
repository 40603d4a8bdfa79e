//! `lab-scrape up` sets up the link of a lab to itself; `lab-scrape ADDRESS:PORT` prints what a server says there
//! under `/metrics`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail};
use vmnoise_labs::links::Links;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["up"] => Links::here()?.set_up("lo", None),
        [host] => scrape(host).with_context(|| host.to_owned()),
        _ => bail!("usage: lab-scrape up | lab-scrape ADDRESS:PORT"),
    }
}

fn scrape(host: &str) -> Result<()> {
    let mut stream = TcpStream::connect(host)?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    print!("{body}");
    Ok(())
}
