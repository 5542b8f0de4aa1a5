//! The formats of `printf` and `scanf`, as the runtime reads them.

use format::{Amount, Arguments, Class, Directive, Directives, Kind, Length, Resolved, for_each};

#[path = "../src/interpose/library/format.rs"]
mod format;

fn units(text: &str) -> impl Fn(usize) -> u32 {
    let units: Vec<u32> = text.chars().map(u32::from).collect();
    move |at| units.get(at).copied().unwrap_or(0)
}

fn directives(kind: Kind, text: &str) -> Vec<Directive> {
    Directives::new(kind, units(text)).collect()
}

fn conversions(kind: Kind, text: &str) -> String {
    directives(kind, text).iter().map(|directive| directive.conversion as char).collect()
}

#[test]
fn every_conversion_is_found_and_percent_signs_are_none() {
    assert_eq!(conversions(Kind::Print, "100%% %d%i %5.2f|%-08lx %s %%%c %p %n %m é%u"), "difxscpnmu");
    assert_eq!(conversions(Kind::Scan, "%d %[^]%d] %*s %5c %% %n"), "d[scn");
    assert_eq!(conversions(Kind::Print, ""), "");
    assert_eq!(conversions(Kind::Print, "no directive"), "");
}

#[test]
fn what_is_not_known_ends_a_format() {
    for (format, known) in [("%d %y %s", "d"), ("%d %", "d"), ("%d %5", "d"), ("%s %ll", "s"), ("%[x %d", "")] {
        let kind = if format.contains('[') { Kind::Scan } else { Kind::Print };
        let mut all = Directives::new(kind, units(format));
        let found: String = all.by_ref().map(|directive| directive.conversion as char).collect();
        assert_eq!(found, known, "{format}");
        assert_eq!(all.next(), None, "{format}");
    }
}

#[test]
fn lengths_say_how_much_is_stored() {
    let sizes =
        |text: &str| -> Vec<Option<usize>> { directives(Kind::Scan, text).iter().map(Directive::stored).collect() };
    let some = |sizes: &[usize]| sizes.iter().map(|&size| Some(size)).collect::<Vec<_>>();
    assert_eq!(sizes("%hhd %hd %d %ld %lld %qd %jd %zd %td %Lx %p"), some(&[1, 2, 4, 8, 8, 8, 8, 8, 8, 8, 8]));
    assert_eq!(sizes("%f %lf %Lf %a"), some(&[4, 8, 10, 4]));
    assert_eq!(sizes("%n %hhn %ln"), some(&[4, 1, 8]));
    assert_eq!(sizes("%s %c %[a]"), [None; 3]);
}

#[test]
fn widths_and_precisions_are_numbers_or_arguments() {
    let all = directives(Kind::Print, "%5d %.3s %*d %.*s %-+ #0*.*f %.s");
    let amounts: Vec<_> = all.iter().map(|directive| (directive.width, directive.precision)).collect();
    use Amount::{Argument, Given, None};
    let next = Argument(Option::None);
    assert_eq!(
        amounts,
        [(Given(5), None), (None, Given(3)), (next, None), (None, next), (next, next), (None, Given(0))]
    );
}

#[test]
fn texts_are_wide_by_their_length_or_letter() {
    let wide = |text| directives(Kind::Print, text).iter().map(Directive::is_wide).collect::<Vec<_>>();
    assert_eq!(wide("%s %ls %S %c %lc %C"), [false, true, true, false, true, true]);
}

#[test]
fn scanned_texts_may_be_allocated() {
    let allocates = |kind, text| directives(kind, text).iter().map(|d| d.allocates).collect::<Vec<_>>();
    assert_eq!(allocates(Kind::Scan, "%ms %m[a] %mc %s"), [true, true, true, false]);
    assert_eq!(conversions(Kind::Scan, "%as"), "a", "a number, and the letter s");
    assert_eq!(conversions(Kind::OldScan, "%as %a[x] %af"), "s[a");
    assert_eq!(allocates(Kind::OldScan, "%as %a[x] %af"), [true, true, false]);
}

#[test]
fn what_has_to_match_keeps_directives_apart() {
    let adjacent = |text| directives(Kind::Scan, text).iter().map(|d| d.adjacent).collect::<Vec<_>>();
    assert_eq!(adjacent("%d%n %n,%n%%%n"), [true, true, true, false, false]);
}

/// A `va_list` as on x86-64, over words of memory: registers first, then the stack.
fn resolved(kind: Kind, text: &str, named: u32) -> Vec<Resolved> {
    let (save, overflow) = (0x1000, 0x2000);
    let arguments = Arguments { general: 8 * named, floating: 48, overflow, save };
    // A word's value is where it is.
    let mut all = Vec::new();
    for_each(kind, &units(text), arguments, &|at| at as u64, |found| all.push(found));
    all
}

fn values(text: &str, named: u32) -> Vec<u64> {
    resolved(Kind::Print, text, named).iter().map(|found| found.argument).collect()
}

#[test]
fn arguments_come_from_registers_and_then_from_the_stack() {
    assert_eq!(values("%d%s%p", 1), [0x1008, 0x1010, 0x1018]);
    assert_eq!(values("%d%d%d%d", 4), [0x1020, 0x1028, 0x2000, 0x2008]);
    assert_eq!(values("%f%d%g", 1), [0x1030, 0x1008, 0x1040]);
    let many = values("%f%f%f%f%f%f%f%f%f%d", 1);
    assert_eq!(many[7..], [0x10a0, 0x2000, 0x1008]);
    // A `long double` is in memory, at a multiple of sixteen.
    assert_eq!(values("%d%d%d%Lf%d", 4), [0x1020, 0x1028, 0x2000, 0, 0x2020]);
    // `%m` and `%%` take none.
    assert_eq!(values("%m%%%s", 1), [0, 0x1008]);
}

#[test]
fn widths_take_arguments_before_the_value() {
    let found = resolved(Kind::Print, "%*.*s", 1)[0];
    assert_eq!((found.width, found.precision, found.argument), (Some(0x1008), Some(0x1010), 0x1018));
    // A precision below zero is none.
    let arguments = Arguments { general: 8, floating: 48, overflow: 0, save: 0 };
    for_each(Kind::Print, &units("%.*s"), arguments, &|_| -3i64 as u64, |found| assert_eq!(found.precision, None));
}

#[test]
fn arguments_may_be_numbered() {
    assert_eq!(values("%2$s %1$d %2$s", 1), [0x1010, 0x1008, 0x1010]);
    assert_eq!(values("%3$s %2$f %1$d", 1), [0x1010, 0x1030, 0x1008]);
    let found = resolved(Kind::Print, "%3$*1$.*2$s", 1)[0];
    assert_eq!((found.width, found.precision, found.argument), (Some(0x1008), Some(0x1010), 0x1018));
    assert_eq!(values("%99999999999999999999$s", 1), [0], "there are not so many");
}

#[test]
fn suppressed_conversions_take_nothing() {
    let found = resolved(Kind::Scan, "%*d%d%*s%s", 2);
    assert_eq!(found.iter().map(|found| found.argument).collect::<Vec<_>>(), [0, 0x1010, 0, 0x1018]);
}

#[test]
fn classes_of_arguments() {
    let classes: Vec<Class> = directives(Kind::Print, "%d%s%f%Lf%Ld").iter().map(Directive::class).collect();
    assert_eq!(classes, [Class::Integer, Class::Integer, Class::Double, Class::LongDouble, Class::Integer]);
    assert_eq!(directives(Kind::Print, "%qd")[0].length, Length::LongLong);
}
