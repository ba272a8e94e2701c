//! A TOML document walked by its known keys: what is left over, of the wrong type or out of range
//! becomes a problem with its key and line, and reading goes on.

use std::{cell::RefCell, collections::BTreeSet, ops::RangeInclusive};

use toml::de::DeTable;

use super::{Problem, item::Item, suggest};

/// The problems found so far, and where the lines of the text end.
pub(super) struct Report {
    line_ends: Vec<usize>,
    problems: RefCell<Vec<Problem>>,
}

impl Report {
    pub(super) fn new(text: &str) -> Self {
        Self {
            line_ends: text.match_indices('\n').map(|(end, _)| end).collect(),
            problems: RefCell::new(Vec::new()),
        }
    }

    /// Notes a problem at a byte offset; none where the whole file is meant.
    pub(super) fn add(&self, key: &str, at: Option<usize>, message: impl Into<String>) {
        self.problems.borrow_mut().push(Problem {
            key: key.to_owned(),
            line: at.map(|at| self.line(at)),
            message: message.into(),
        });
    }

    /// Every problem, in the order of lines.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems
    }

    /// The line of a byte offset, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        1 + self.line_ends.partition_point(|end| *end < at)
    }
}

/// One table. The closure that reads it takes each key that it knows; what it did not take is
/// reported when it returns.
pub(super) struct Section<'d> {
    report: &'d Report,
    path: String,
    at: Option<usize>,
    table: Option<&'d DeTable<'d>>,
    known: BTreeSet<&'static str>,
}

impl<'d> Section<'d> {
    /// Reads the whole document.
    pub(super) fn root<T>(
        report: &'d Report,
        table: &'d DeTable<'d>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        Self::of(report, String::new(), None, Some(table)).read(read)
    }

    fn of(
        report: &'d Report,
        path: String,
        at: Option<usize>,
        table: Option<&'d DeTable<'d>>,
    ) -> Self {
        Self {
            report,
            path,
            at,
            table,
            known: BTreeSet::new(),
        }
    }

    /// Reads this table and then reports every key that `read` did not take.
    fn read<T>(mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let value = read(&mut self);
        for (key, _) in self.table.into_iter().flatten() {
            if !self.known.contains(key.get_ref().as_ref()) {
                let known = self.known.iter().copied();
                let message = format!("unknown key; {}", suggest::among(key.get_ref(), known));
                let path = self.child(key.get_ref());
                self.report.add(&path, Some(key.span().start), message);
            }
        }
        value
    }

    /// The value of `key`, which is known from now on.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Item<'d>> {
        self.known.insert(key);
        let (name, value) = self.table?.get_key_value(key)?;
        let at = name.span().start;
        Some(Item::new(self.report, self.child(key), at, value))
    }

    /// The value of `key`, whose absence is a problem.
    pub(super) fn required(&mut self, key: &'static str, example: &str) -> Option<Item<'d>> {
        let item = self.take(key);
        if item.is_none() {
            let message = format!("missing; write {key} = {example}");
            self.report.add(&self.child(key), self.at, message);
        }
        item
    }

    /// Reads a table; an absent one reads as empty, so that its defaults stand in one place.
    pub(super) fn table<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Self) -> T) -> T {
        let item = self.take(key);
        let at = item.as_ref().map(|item| item.at);
        let table = item.and_then(|item| item.table());
        Self::of(self.report, self.child(key), at, table).read(read)
    }

    /// Reads every table of an array of tables.
    pub(super) fn tables<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let Some(item) = self.take(key) else {
            return Vec::new();
        };
        let Some(elements) = item.elements() else {
            item.wrong_type(&format!("a list of tables, each headed [[{}]]", item.path));
            return Vec::new();
        };
        let tables = elements.into_iter().filter_map(|element| {
            let table = element.table()?;
            let section = Self::of(self.report, element.path, Some(element.at), Some(table));
            Some(section.read(&mut read))
        });
        tables.collect()
    }

    /// Reads a table of tables that the operator names.
    pub(super) fn named_tables<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&str, &mut Self) -> T,
    ) -> Vec<T> {
        let Some(item) = self.take(key) else {
            return Vec::new();
        };
        let tables = item
            .table()
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| {
                let path = format!("{}.{}", item.path, name.get_ref());
                let named = Item::new(self.report, path, name.span().start, value);
                let table = named.table()?;
                let section = Self::of(self.report, named.path, Some(named.at), Some(table));
                Some(section.read(|section| read(name.get_ref(), section)))
            });
        tables.collect()
    }

    /// A text that `parse` reads; `expected` says what belongs there.
    pub(super) fn parsed<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.take(key)?.parsed(expected, parse)
    }

    /// A list of texts that `parse` reads.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let elements = self.take(key)?.list(expected)?;
        let parsed = elements
            .iter()
            .filter_map(|item| item.parsed(expected, &parse));
        Some(parsed.collect())
    }

    /// A whole number within `range`.
    pub(super) fn number(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        self.take(key)?.number(range)
    }

    /// `true` or `false`; absent is `false`.
    pub(super) fn flag(&mut self, key: &'static str) -> bool {
        self.take(key).and_then(|item| item.flag()).unwrap_or(false)
    }

    /// Where this table stands, e.g. `profiles.default`.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The line that this table begins on; the first, for one that is not there.
    pub(super) fn line(&self) -> usize {
        self.at.map_or(1, |at| self.report.line(at))
    }

    /// Notes a problem with this table as a whole.
    pub(super) fn problem(&self, message: impl Into<String>) {
        self.report.add(&self.path, self.at, message);
    }

    /// Notes a problem with the value at `path` below this table.
    pub(super) fn problem_at(&self, path: &str, message: impl Into<String>) {
        let at = self.table.and_then(|table| locate(table, path));
        self.report.add(path, at, message);
    }

    fn child(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }
}

/// Where `path` stands, e.g. `profiles.default.rules[0].hosts[1]`.
fn locate(table: &DeTable<'_>, path: &str) -> Option<usize> {
    let mut steps = path.split(['.', '[']);
    let (name, value) = table.get_key_value(steps.next()?)?;
    let (mut at, mut value) = (name.span().start, value.get_ref());
    for step in steps {
        if let Some(index) = step.strip_suffix(']') {
            let element = value.get(index.parse::<usize>().ok()?)?;
            (at, value) = (element.span().start, element.get_ref());
        } else {
            let (name, inner) = value.as_table()?.get_key_value(step)?;
            (at, value) = (name.span().start, inner.get_ref());
        }
    }
    Some(at)
}
