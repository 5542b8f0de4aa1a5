//! Numbers as people read them.

/// A whole number with its digits in groups of three: `1 204`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 race`, `2 races`. Only for nouns that take an s.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A time: `0.01 s`, `12.3 s`, `4 min 5 s`.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.01 => "< 0.01 s".to_owned(),
        s if s < 10.0 => format!("{s:.2} s"),
        s if s < 120.0 => format!("{s:.1} s"),
        s => format!("{} min {:.0} s", grouped((s / 60.0) as u64), (s % 60.0).floor()),
    }
}

/// A rate or another large number: `12.3 M`.
pub fn scaled(number: f64) -> String {
    match number {
        n if !n.is_finite() || n <= 0.0 => "-".to_owned(),
        n if n < 1e3 => format!("{n:.0}"),
        n if n < 1e6 => format!("{:.1} k", n / 1e3),
        n if n < 1e9 => format!("{:.1} M", n / 1e6),
        n => format!("{:.1} G", n / 1e9),
    }
}

/// Bytes, in binary units: `1.5 MiB`.
pub fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{number} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(123), "123");
        assert_eq!(grouped(1204), "1 204");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(counted(1, "race"), "1 race");
        assert_eq!(counted(0, "race"), "0 races");
        assert_eq!(
            (seconds(0.014), seconds(12.34), seconds(245.6)),
            ("0.01 s".into(), "12.3 s".into(), "4 min 5 s".into())
        );
        assert_eq!((scaled(0.0), scaled(12.0), scaled(1.26e7)), ("-".into(), "12".into(), "12.6 M".into()));
        assert_eq!((bytes(17), bytes(1536), bytes(3 << 30)), ("17 B".into(), "1.5 KiB".into(), "3.0 GiB".into()));
    }
}
