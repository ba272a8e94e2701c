//! One value of the document, read as what it should be.

use std::ops::RangeInclusive;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::document::Report;

/// One value and where it stands.
pub(super) struct Item<'d> {
    report: &'d Report,
    /// E.g. `profiles.default.allow[2]`.
    pub(super) path: String,
    /// The byte offset of its key, or of itself in a list.
    pub(super) at: usize,
    value: &'d DeValue<'d>,
}

impl<'d> Item<'d> {
    pub(super) fn new(
        report: &'d Report,
        path: String,
        at: usize,
        value: &'d Spanned<DeValue<'d>>,
    ) -> Self {
        Self {
            report,
            path,
            at,
            value: value.get_ref(),
        }
    }

    /// Notes a problem with this value.
    pub(super) fn problem(&self, message: impl Into<String>) {
        self.report.add(&self.path, Some(self.at), message);
    }

    /// The text as written.
    pub(super) fn text(&self, expected: &str) -> Option<&'d str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.wrong_type(expected);
        }
        text
    }

    /// What `parse` makes of the text.
    pub(super) fn parsed<T>(
        &self,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(expected)?;
        if text.contains("${") {
            self.problem(format!(
                "{text:?} holds `${{`, and the environment is not expanded here; write the value \
                 itself"
            ));
            return None;
        }
        parse(text).map_err(|message| self.problem(message)).ok()
    }

    /// The elements of a list; `expected` says what each is.
    pub(super) fn list(&self, expected: &str) -> Option<Vec<Self>> {
        let elements = self.elements();
        match self.value.as_str() {
            Some(text) => self.problem(format!("expected a list; write [{text:?}]")),
            None if elements.is_none() => {
                self.wrong_type(&format!("a list, each element {expected}"));
            }
            None => {}
        }
        elements
    }

    /// The elements, where this is a list.
    pub(super) fn elements(&self) -> Option<Vec<Self>> {
        let elements = self.value.as_array()?.iter().enumerate();
        let items = elements.map(|(index, element)| {
            let path = format!("{}[{index}]", self.path);
            Self::new(self.report, path, element.span().start, element)
        });
        Some(items.collect())
    }

    /// A whole number within `range`.
    pub(super) fn number(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let DeValue::Integer(integer) = self.value else {
            self.wrong_type("a whole number without quotes");
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let within = number.filter(|number| range.contains(number));
        if within.is_none() {
            let (least, most) = (range.start(), range.end());
            self.problem(format!(
                "{integer} is out of range: write {least} to {most}"
            ));
        }
        within
    }

    /// `true` or `false`.
    pub(super) fn flag(&self) -> Option<bool> {
        let flag = self.value.as_bool();
        if flag.is_none() {
            self.wrong_type("true or false without quotes");
        }
        flag
    }

    /// The table.
    pub(super) fn table(&self) -> Option<&'d DeTable<'d>> {
        let table = self.value.as_table();
        if table.is_none() {
            self.wrong_type("a table");
        }
        table
    }

    /// Notes that something else than `expected` stands here.
    pub(super) fn wrong_type(&self, expected: &str) {
        let found = match self.value {
            DeValue::String(text) => format!("the text {text:?}"),
            DeValue::Integer(number) => format!("the number {number}"),
            DeValue::Float(number) => format!("the number {number}"),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(date) => format!("the date {date}"),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        self.problem(format!("expected {expected}, found {found}"));
    }
}
