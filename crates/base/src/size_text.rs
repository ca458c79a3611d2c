//! Sizes for people, in decimal units; limits in the unit in which they were probably typed.

const UNITS: [&str; 7] = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
/// Binary units, each 1024 times the one before.
pub const BINARY_UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// `512 bytes`, `4.29 GB`, `333.1 GB`
pub fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        2..1000 | 0 => format!("{bytes} bytes"),
        _ => {
            let unit = unit_of(bytes, |scaled| if scaled < 9.995 { 2 } else { 1 });
            format!("{} {}", scaled(bytes, unit, false), UNITS[unit])
        }
    }
}

/// `203.4 of 333.1 GB`: both in the unit of the total.
pub fn part_of(bytes: u64, total: u64) -> String {
    let unit = unit_of(total, |scaled| if scaled < 9.995 { 2 } else { 1 });
    format!("{} of {} {}", scaled(bytes, unit, in_tenths(total, unit)), scaled(total, unit, false), UNITS[unit])
}

/// A limit: `20 MiB` if that is a whole number in a binary unit and no shorter one in a decimal unit, else `12.5 MB`.
pub fn size_limit(bytes: u64) -> String {
    let binary = whole(bytes, 1024);
    if binary.1 > 0 && binary.0 <= whole(bytes, 1000).0 {
        return format!("{} {}", binary.0, BINARY_UNITS[binary.1]);
    }
    match size(bytes).split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => size(bytes),
    }
}

/// The whole number of the largest unit without a rest, and the unit.
fn whole(mut bytes: u64, base: u64) -> (u64, usize) {
    let mut unit = 0;
    while bytes > 0 && bytes.is_multiple_of(base) {
        (bytes, unit) = (bytes / base, unit + 1);
    }
    (bytes, unit)
}

/// The unit in which `bytes`, once rounded, is below 1000.
#[allow(clippy::cast_precision_loss, reason = "shown with four digits")]
fn unit_of(bytes: u64, decimals: impl Fn(f64) -> i32) -> usize {
    let mut value = bytes as f64;
    let mut unit = 0;
    while unit + 1 < UNITS.len() {
        let limit = if unit == 0 { 1000.0 } else { 1000.0 - 0.5 / 10f64.powi(decimals(value)) };
        if value < limit {
            break;
        }
        value /= 1000.0;
        unit += 1;
    }
    unit
}

#[allow(clippy::cast_precision_loss, reason = "shown with four digits")]
fn in_unit(bytes: u64, unit: usize) -> f64 {
    bytes as f64 / 10f64.powi(3 * i32::try_from(unit).unwrap_or_default())
}

fn in_tenths(bytes: u64, unit: usize) -> bool {
    in_unit(bytes, unit) >= 9.995
}

fn scaled(bytes: u64, unit: usize, tenths: bool) -> String {
    let value = in_unit(bytes, unit);
    match unit {
        0 => format!("{bytes}"),
        _ if tenths || value >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_decimal_and_round_into_the_next_unit() {
        let bytes = [0, 1, 999, 1000, 4_294_967_296, 333_149_000_000, 999_949, 999_950, 9_994_999, 9_995_000, u64::MAX];
        let shown = [
            "0 bytes",
            "1 byte",
            "999 bytes",
            "1.00 kB",
            "4.29 GB",
            "333.1 GB",
            "999.9 kB",
            "1.00 MB",
            "9.99 MB",
            "10.0 MB",
            "18.4 EB",
        ];
        assert_eq!(bytes.map(size), shown);
    }

    #[test]
    fn parts_share_the_unit_of_the_total() {
        assert_eq!(part_of(203_400_000_000, 333_100_000_000), "203.4 of 333.1 GB");
        assert_eq!(part_of(1_000_000, 333_100_000_000), "0.0 of 333.1 GB");
        assert_eq!(part_of(1_234_000_000, 4_290_000_000), "1.23 of 4.29 GB");
        assert_eq!(part_of(0, 0), "0 of 0 bytes");
    }

    #[test]
    fn limits_are_shown_as_typed() {
        let bytes = [
            20 << 20,
            1000 << 10,
            3 << 29,
            20_000 << 10,
            1 << 40,
            10_000_000,
            12_500_000,
            2_000_000_000,
            16_000_000,
            1500,
            12_345_678,
            512,
            0,
            u64::MAX,
        ];
        let shown = [
            "20 MiB",
            "1000 KiB",
            "1536 MiB",
            "20000 KiB",
            "1 TiB",
            "10 MB",
            "12.5 MB",
            "2 GB",
            "16 MB",
            "1.5 kB",
            "12.3 MB",
            "512 bytes",
            "0 bytes",
            "18.4 EB",
        ];
        assert_eq!(bytes.map(size_limit), shown);
    }
}
