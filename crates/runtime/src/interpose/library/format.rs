//! Formats of `printf` and `scanf`, and the arguments that come with them.
//!
//! A format is a row of units, bytes or wide characters, with a zero behind it. [`Directives`] finds its directives;
//! [`for_each`] finds their arguments as well. What is not known ends the format: what follows it is not looked at.

/// For whom a format is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Print,
    Scan,
    /// For the `scanf` of before C99, where `%as` allocates.
    OldScan,
}

/// How large an argument is, or what it points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Length {
    #[default]
    Plain,
    Char,
    Short,
    /// Also wide, of characters and texts.
    Long,
    LongLong,
}

/// A width or a precision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Amount {
    #[default]
    None,
    Given(usize),
    /// The next argument, or the one that is named.
    Argument(Option<usize>),
}

/// One directive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Directive {
    /// The number of its argument, from 1 on; otherwise it is the next one.
    pub position: Option<usize>,
    pub width: Amount,
    pub precision: Amount,
    pub length: Length,
    /// Its letter; `[` for sets.
    pub conversion: u8,
    /// Nothing is stored.
    pub suppressed: bool,
    /// The text is put into a new block.
    pub allocates: bool,
    /// Whether nothing that has to match stands between it and the one before.
    pub adjacent: bool,
}

/// How an argument is passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Integer,
    Double,
    LongDouble,
}

impl Directive {
    /// Whether it has an argument of its own.
    pub fn has_argument(&self) -> bool {
        !self.suppressed && self.conversion != b'm'
    }

    /// Whether its characters are wide.
    pub fn is_wide(&self) -> bool {
        matches!(self.length, Length::Long | Length::LongLong) || matches!(self.conversion, b'S' | b'C')
    }

    fn is_real(&self) -> bool {
        matches!(self.conversion, b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G')
    }

    /// How `printf` takes it.
    pub fn class(&self) -> Class {
        match (self.is_real(), self.length) {
            (true, Length::LongLong) => Class::LongDouble,
            (true, _) => Class::Double,
            _ => Class::Integer,
        }
    }

    /// The bytes of the number that it stores; `None` for texts and characters.
    pub fn stored(&self) -> Option<usize> {
        match self.conversion {
            b's' | b'S' | b'c' | b'C' | b'[' => None,
            b'p' => Some(8),
            // What the processor stores of a `long double`.
            _ if self.is_real() => Some(match self.length {
                Length::Long => 8,
                Length::LongLong => 10,
                _ => 4,
            }),
            _ => Some(match self.length {
                Length::Char => 1,
                Length::Short => 2,
                Length::Plain => 4,
                Length::Long | Length::LongLong => 8,
            }),
        }
    }
}

/// The directives of a format that take an argument or look at errno. `unit` says what is at a place in the format.
pub struct Directives<F> {
    unit: F,
    at: usize,
    kind: Kind,
}

impl<F: Fn(usize) -> u32> Directives<F> {
    pub fn new(kind: Kind, unit: F) -> Directives<F> {
        Directives { unit, at: 0, kind }
    }

    fn peek(&self) -> u8 {
        // Characters beyond ASCII mean nothing special.
        u8::try_from((self.unit)(self.at)).unwrap_or(b'\xff')
    }

    fn takes(&mut self, wanted: u8) -> bool {
        let found = self.peek() == wanted;
        self.at += found as usize;
        found
    }

    fn number(&mut self) -> Option<usize> {
        let mut value = None;
        while self.peek().is_ascii_digit() {
            let digit = (self.peek() - b'0') as usize;
            value = Some(value.unwrap_or(0usize).saturating_mul(10).saturating_add(digit));
            self.at += 1;
        }
        value
    }

    /// A number that `$` follows; otherwise nothing is taken.
    fn position(&mut self) -> Option<usize> {
        let start = self.at;
        let number = self.number().filter(|&number| number > 0);
        if number.is_some() && self.takes(b'$') {
            return number;
        }
        self.at = start;
        None
    }

    fn amount(&mut self) -> Amount {
        if self.takes(b'*') {
            return Amount::Argument(self.position());
        }
        self.number().map_or(Amount::None, Amount::Given)
    }

    fn length(&mut self) -> Length {
        match self.peek() {
            b'h' => {
                self.at += 1;
                if self.takes(b'h') { Length::Char } else { Length::Short }
            }
            b'l' => {
                self.at += 1;
                if self.takes(b'l') { Length::LongLong } else { Length::Long }
            }
            b'L' | b'q' => {
                self.at += 1;
                Length::LongLong
            }
            b'j' | b'z' | b'Z' | b't' => {
                self.at += 1;
                Length::Long
            }
            _ => Length::Plain,
        }
    }

    /// Behind the set of `%[`.
    fn set(&mut self) -> bool {
        self.takes(b'^');
        self.takes(b']');
        while self.peek() != 0 {
            if self.takes(b']') {
                return true;
            }
            self.at += 1;
        }
        false
    }

    /// Up to behind the next `%`; `None` at the end. Says whether there was nothing that has to match: blanks always do.
    fn skip(&mut self) -> Option<bool> {
        let mut only_blanks = true;
        loop {
            let next = self.peek();
            if next == 0 {
                return None;
            }
            self.at += 1;
            if next == b'%' {
                return Some(only_blanks);
            }
            only_blanks &= matches!(next, b' ' | b'\t'..=b'\r');
        }
    }

    fn directive(&mut self) -> Option<Directive> {
        let mut directive = Directive { position: self.position(), ..Directive::default() };
        match self.kind {
            Kind::Print => {
                while matches!(self.peek(), b'-' | b'+' | b' ' | b'#' | b'0' | b'\'' | b'I') {
                    self.at += 1;
                }
                directive.width = self.amount();
                if self.takes(b'.') {
                    directive.precision = match self.amount() {
                        Amount::None => Amount::Given(0),
                        amount => amount,
                    };
                }
            }
            Kind::Scan | Kind::OldScan => {
                while matches!(self.peek(), b'*' | b'\'' | b'I') {
                    directive.suppressed |= self.peek() == b'*';
                    self.at += 1;
                }
                directive.width = self.number().map_or(Amount::None, Amount::Given);
                directive.allocates = self.takes(b'm');
                let next = self.at + 1;
                if self.kind == Kind::OldScan && self.peek() == b'a' && matches!((self.unit)(next), 0x73 | 0x53 | 0x5b)
                {
                    self.at = next;
                    directive.allocates = true;
                }
            }
        }
        directive.length = self.length();
        directive.conversion = self.peek();
        self.at += 1;
        match (directive.conversion, self.kind) {
            (b'd' | b'i' | b'o' | b'u' | b'x' | b'X' | b'p' | b'n' | b's' | b'S' | b'c' | b'C', _) => Some(directive),
            (b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G', _) => Some(directive),
            (b'm', Kind::Print) => Some(directive),
            (b'[', Kind::Scan | Kind::OldScan) => self.set().then_some(directive),
            _ => None,
        }
    }
}

impl<F: Fn(usize) -> u32> Iterator for Directives<F> {
    type Item = Directive;

    fn next(&mut self) -> Option<Directive> {
        let mut adjacent = true;
        loop {
            adjacent &= self.skip()?;
            if self.takes(b'%') {
                adjacent = false;
                continue;
            }
            let Some(directive) = self.directive() else {
                // Whatever follows: nobody knows what arguments it takes.
                let at = self.at;
                self.at = (at.saturating_sub(1)..).find(|&at| (self.unit)(at) == 0).unwrap_or(at);
                return None;
            };
            return Some(Directive { adjacent, ..directive });
        }
    }
}

/// The arguments behind the named ones, as a `va_list` has them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// Bytes from `save` to the next integer register, below 48; to the next of the others, below 176.
    pub general: u32,
    pub floating: u32,
    /// The next argument in memory.
    pub overflow: usize,
    /// The registers.
    pub save: usize,
}

impl Arguments {
    /// Takes one; of a `long double`, no value.
    fn take(&mut self, class: Class, read: &impl Fn(usize) -> u64) -> u64 {
        let in_memory = |this: &mut Self| {
            this.overflow += 8;
            this.overflow - 8
        };
        let at = match class {
            Class::Integer if self.general < 48 => {
                self.general += 8;
                self.save + self.general as usize - 8
            }
            Class::Double if self.floating < 176 => {
                self.floating += 16;
                self.save + self.floating as usize - 16
            }
            Class::LongDouble => {
                self.overflow = self.overflow.next_multiple_of(16) + 16;
                return 0;
            }
            _ => in_memory(self),
        };
        read(at)
    }
}

/// A directive with its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolved {
    pub directive: Directive,
    /// Those that are given as arguments included; a negative precision is none.
    pub width: Option<usize>,
    pub precision: Option<usize>,
    /// 0 if it has none.
    pub argument: u64,
}

/// Most arguments of a format that numbers them.
const MOST: usize = 64;

/// Calls `each` for every directive. `read` is what is in a word of memory.
pub fn for_each(
    kind: Kind,
    unit: &impl Fn(usize) -> u32,
    mut arguments: Arguments,
    read: &impl Fn(usize) -> u64,
    mut each: impl FnMut(Resolved),
) {
    let class = |directive: &Directive| if kind == Kind::Print { directive.class() } else { Class::Integer };
    let numbered = Directives::new(kind, unit).any(|directive| directive.position.is_some());
    let mut values = [0; MOST];
    if numbered {
        let mut classes = [Class::Integer; MOST];
        let mut count = 0;
        let mut see = |position: Option<usize>, class| {
            if let Some(index) = position.map(|position| position - 1).filter(|&index| index < MOST) {
                classes[index] = class;
                count = count.max(index + 1);
            }
        };
        for directive in Directives::new(kind, unit) {
            for amount in [directive.width, directive.precision] {
                if let Amount::Argument(position) = amount {
                    see(position, Class::Integer);
                }
            }
            see(directive.position, class(&directive));
        }
        for (value, class) in values.iter_mut().zip(classes).take(count) {
            *value = arguments.take(class, read);
        }
    }
    let mut take = |position: Option<usize>, class| match position {
        Some(position) => values.get(position - 1).copied().unwrap_or(0),
        None if numbered => 0,
        None => arguments.take(class, read),
    };
    for directive in Directives::new(kind, unit) {
        let mut amount = |amount| match amount {
            Amount::None => None,
            Amount::Given(number) => Some(number),
            Amount::Argument(position) => usize::try_from(take(position, Class::Integer) as i32).ok(),
        };
        let (width, precision) = (amount(directive.width), amount(directive.precision));
        let argument = if directive.has_argument() { take(directive.position, class(&directive)) } else { 0 };
        each(Resolved { directive, width, precision, argument });
    }
}
