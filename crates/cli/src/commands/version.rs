//! `haul --version --verbose`: the version, and this CPU's speed of encryption and hashing.

use std::time::Duration;

use anyhow::{Error, Result};
use haul_engine::worker::measure::{Primitive, primitives};
use haul_show::exit::Exit;
use haul_show::output::print;
use haul_show::units::rate;

use crate::args::version::VERSION;

/// Time per measurement, for two significant digits.
const EACH: Duration = Duration::from_millis(20);

/// Measures, and prints one line per primitive.
pub fn run() -> Result<Exit> {
    let mut text = VERSION.to_owned();
    for Primitive { name, library, bytes_per_s } in primitives(EACH).map_err(Error::msg)? {
        text.push_str(&format!("{name:<19}{:<12}one core, by {library}\n", rate(bytes_per_s as f64)));
    }
    print(&text);
    Ok(Exit::Done)
}
