//! Types of variables from debug information.

use super::{Known, Layouts, Member, Shape, Type};
use addr2line::gimli::{self, AttributeValue, DebugInfoOffset, DwAt, EndianSlice, RunTimeEndian, UnitOffset};
use object::{Object, ObjectSection};
use std::collections::HashMap;

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;
type Entry<'a, 'b> = gimli::DebuggingInformationEntry<'b, 'b, Reader<'a>>;

/// Types are nested no deeper than this; what is deeper counts as plain.
const DEPTH: u32 = 60;

/// An entry repeats another, which completes a third; there are no longer chains.
const ORIGINS: u32 = 3;

/// The variables of a file that have addresses.
pub fn read(bytes: &[u8]) -> Option<Layouts> {
    let file = object::File::parse(bytes).ok()?;
    let section = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
        let data = file.section_by_name(id.name()).and_then(|section| section.data().ok()).unwrap_or(&[]);
        Ok(EndianSlice::new(data, RunTimeEndian::Little))
    };
    let dwarf = gimli::Dwarf::load(section).ok()?;
    let mut units = Vec::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        units.push(dwarf.unit(header).ok()?);
    }
    let mut reading = Reading { dwarf: &dwarf, units: &units, layouts: Layouts::default(), numbers: HashMap::new() };
    for unit in 0..units.len() {
        // What cannot be read of one unit does not spoil the others.
        let _ = reading.variables(unit);
    }
    Some(reading.layouts)
}

struct Reading<'a, 'b> {
    dwarf: &'b gimli::Dwarf<Reader<'a>>,
    units: &'b [gimli::Unit<Reader<'a>>],
    layouts: Layouts,
    /// Number of each type that was read: its unit and offset.
    numbers: HashMap<(usize, usize), u32>,
}

impl<'a, 'b> Reading<'a, 'b> {
    fn variables(&mut self, unit: usize) -> gimli::Result<()> {
        let mut entries = self.units[unit].entries();
        let mut depth = 0;
        // The function that the entries are in, and its depth.
        let mut function: Option<(isize, String)> = None;
        while let Some((deeper, entry)) = entries.next_dfs()? {
            depth += deeper;
            if function.as_ref().is_some_and(|(of, _)| depth <= *of) {
                function = None;
            }
            match entry.tag() {
                gimli::DW_TAG_subprogram if function.is_none() => {
                    function = self.name(unit, entry, ORIGINS).map(|name| (depth, name));
                }
                gimli::DW_TAG_variable => {
                    let inside = function.as_ref().map(|(_, name)| name.as_str());
                    self.variable(unit, entry, inside);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn variable(&mut self, unit: usize, entry: &Entry<'a, '_>, function: Option<&str>) -> Option<()> {
        let address = self.address(unit, entry)?;
        let (at, of) = self.type_of(unit, entry)?;
        // The symbol of a static variable in a function is not what the source says: `calls.0`.
        let name = match (function, self.name(unit, entry, ORIGINS)) {
            (Some(function), Some(name)) => format!("{function}::{name}"),
            _ => String::new(),
        };
        let of = self.number(at, of, DEPTH);
        self.layouts.variables.insert(address, Known { of, name });
        Some(())
    }

    /// The address of a variable that always has the same.
    fn address(&self, unit: usize, entry: &Entry<'a, '_>) -> Option<u64> {
        let AttributeValue::Exprloc(expression) = entry.attr_value(gimli::DW_AT_location).ok()?? else { return None };
        let unit = &self.units[unit];
        let mut operations = expression.operations(unit.encoding());
        let address = match operations.next().ok()?? {
            gimli::Operation::Address { address } => address,
            gimli::Operation::AddressIndex { index } => self.dwarf.address(unit, index).ok()?,
            _ => return None,
        };
        operations.next().ok()?.is_none().then_some(address)
    }

    /// The name of an entry, or of what it repeats or completes.
    fn name(&self, unit: usize, entry: &Entry<'a, '_>, origins: u32) -> Option<String> {
        if let Some(text) = entry.attr_value(gimli::DW_AT_name).ok()? {
            let text = self.dwarf.attr_string(&self.units[unit], text).ok()?;
            return Some(text.to_string_lossy().into_owned());
        }
        let (at, offset) = self.origin(unit, entry).filter(|_| origins > 0)?;
        self.name(at, &self.units[at].entry(offset).ok()?, origins - 1)
    }

    /// The entry that this one completes or repeats.
    fn origin(&self, unit: usize, entry: &Entry<'a, '_>) -> Option<(usize, UnitOffset)> {
        let [one, other] = [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin];
        self.reference(unit, entry, one).or_else(|| self.reference(unit, entry, other))
    }

    fn type_of(&self, unit: usize, entry: &Entry<'a, '_>) -> Option<(usize, UnitOffset)> {
        self.reference(unit, entry, gimli::DW_AT_type).or_else(|| {
            let (at, offset) = self.origin(unit, entry)?;
            self.reference(at, &self.units[at].entry(offset).ok()?, gimli::DW_AT_type)
        })
    }

    fn reference(&self, unit: usize, entry: &Entry<'a, '_>, attribute: DwAt) -> Option<(usize, UnitOffset)> {
        match entry.attr_value(attribute).ok()?? {
            AttributeValue::UnitRef(offset) => Some((unit, offset)),
            AttributeValue::DebugInfoRef(offset) => {
                let starts = |unit: &gimli::Unit<Reader<'a>>| unit.header.offset().as_debug_info_offset();
                let at = self.units.partition_point(|unit| starts(unit).is_some_and(|start| start <= offset));
                let at = at.checked_sub(1)?;
                let DebugInfoOffset(start) = starts(&self.units[at])?;
                Some((at, UnitOffset(offset.0 - start)))
            }
            _ => None,
        }
    }

    /// The number of a type.
    fn number(&mut self, unit: usize, offset: UnitOffset, depth: u32) -> u32 {
        let key = (unit, offset.0);
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        // A type that contains itself, which there is not, would find this one.
        let number = self.layouts.types.len() as u32;
        self.layouts.types.push(Type { size: 0, shape: Shape::Plain });
        self.numbers.insert(key, number);
        if let Some(found) = (depth > 0).then(|| self.read_type(unit, offset, depth - 1)).flatten() {
            self.layouts.types[number as usize] = found;
        }
        number
    }

    fn read_type(&mut self, unit: usize, offset: UnitOffset, depth: u32) -> Option<Type> {
        let units = self.units;
        let entry = units[unit].entry(offset).ok()?;
        let number = |attribute| entry.attr_value(attribute).ok().flatten().and_then(|value| value.udata_value());
        let size = number(gimli::DW_AT_byte_size);
        match entry.tag() {
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_atomic_type
            | gimli::DW_TAG_restrict_type => {
                let (at, of) = self.reference(unit, &entry, gimli::DW_AT_type)?;
                let of = self.number(at, of, depth);
                Some(self.layouts.types[of as usize].clone())
            }
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let members = self.members(unit, offset, depth)?;
                Some(Type { size: size?, shape: Shape::Members(members) })
            }
            gimli::DW_TAG_array_type => self.array(unit, offset, depth),
            _ => Some(Type { size: size.unwrap_or(8), shape: Shape::Plain }),
        }
    }

    fn members(&mut self, unit: usize, offset: UnitOffset, depth: u32) -> Option<Vec<Member>> {
        let units = self.units;
        let mut tree = units[unit].entries_tree(Some(offset)).ok()?;
        let mut children = tree.root().ok()?.children();
        let mut members = Vec::new();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            let is_member = matches!(entry.tag(), gimli::DW_TAG_member | gimli::DW_TAG_inheritance);
            // Static members are elsewhere.
            if !is_member || entry.attr(gimli::DW_AT_external).is_ok_and(|attribute| attribute.is_some()) {
                continue;
            }
            let offset = match entry.attr_value(gimli::DW_AT_data_member_location) {
                Ok(Some(value)) => value.udata_value(),
                // Bits: which byte they start in.
                _ => match entry.attr_value(gimli::DW_AT_data_bit_offset) {
                    Ok(Some(bits)) => bits.udata_value().map(|bits| bits / 8),
                    _ => Some(0),
                },
            };
            let (Some(offset), Some((at, of))) = (offset, self.reference(unit, entry, gimli::DW_AT_type)) else {
                continue;
            };
            let name = match entry.tag() {
                gimli::DW_TAG_member => self.name(unit, entry, ORIGINS).unwrap_or_default(),
                _ => String::new(),
            };
            members.push(Member { name, offset, of: self.number(at, of, depth) });
        }
        Some(members)
    }

    fn array(&mut self, unit: usize, offset: UnitOffset, depth: u32) -> Option<Type> {
        let units = self.units;
        let entry = units[unit].entry(offset).ok()?;
        let (at, of) = self.reference(unit, &entry, gimli::DW_AT_type)?;
        let mut element = self.number(at, of, depth);
        let mut tree = units[unit].entries_tree(Some(offset)).ok()?;
        let mut children = tree.root().ok()?.children();
        let mut counts = Vec::new();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            let number = |attribute| entry.attr_value(attribute).ok().flatten().and_then(|value| value.udata_value());
            if entry.tag() == gimli::DW_TAG_subrange_type {
                let last = || number(gimli::DW_AT_upper_bound).and_then(|last| last.checked_add(1));
                counts.push(number(gimli::DW_AT_count).or_else(last).unwrap_or(0));
            }
        }
        // The last one varies fastest.
        let mut array = None;
        for count in counts.into_iter().rev() {
            if let Some(inner) = array.take() {
                element = self.layouts.types.len() as u32;
                self.layouts.types.push(inner);
            }
            let size = self.layouts.types[element as usize].size.checked_mul(count)?;
            array = Some(Type { size, shape: Shape::Elements(element) });
        }
        array
    }
}
