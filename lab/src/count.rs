//! How many cases a harness runs, and how many it ran: one line each, which a later step collects into a table.

/// The number of cases to run: the variable's value, or the everyday number.
///
/// # Panics
/// If the variable holds something else than a number: a run that was to be long must not be short unnoticed.
pub fn cases(variable: &str, everyday: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, which is no number")),
        Err(_) => everyday,
    }
}

/// Says how many cases of `row` were really run, with nothing wrong.
pub fn count(row: &str, number: u64) {
    println!("COUNT {row} {number}");
}
