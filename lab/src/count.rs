//! Counts of a harness's cases: requested and run. One output line each; a later step makes a table of them.

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

/// Reports the number of cases of `row` that ran without a failure.
pub fn count(row: &str, number: u64) {
    println!("COUNT {row} {number}");
}
