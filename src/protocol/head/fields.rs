//! The fields of a head.

/// The fields of a head, in order, names in lower case, values without the whitespace around them.
/// A value holds no control byte but a tab; bytes above 0x7f are kept as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(Box<str>, Box<[u8]>)>);

impl Fields {
    pub(super) fn new(headers: &[httparse::Header<'_>]) -> Self {
        let field = |header: &httparse::Header<'_>| {
            let name = header.name.to_ascii_lowercase().into_boxed_str();
            (name, header.value.into())
        };
        Self(headers.iter().map(field).collect())
    }

    /// Lets go of every field but `names` (lower case).
    pub fn keep_only(&mut self, names: &[&str]) {
        self.0.retain(|(name, _)| names.contains(&&**name));
        self.0.shrink_to_fit();
    }

    /// Every field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Every value of `name` (lower case), in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.iter()
            .filter(move |(n, _)| *n == name)
            .map(|(_, value)| value)
    }

    /// The value of `name` (lower case), where there is exactly one.
    pub fn one(&self, name: &str) -> Option<&[u8]> {
        let mut all = self.iter().filter(|(n, _)| *n == name);
        let (_, value) = all.next()?;
        all.next().is_none().then_some(value)
    }

    /// The elements of the list that is `name` (lower case), over all its lines, without the
    /// empty ones (RFC 9110 section 5.6.1).
    pub fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.all(name)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|element| !element.is_empty())
    }

    /// Whether the list that is `name` (lower case) has `element`, in whatever case.
    pub fn lists(&self, name: &str, element: &str) -> bool {
        self.list(name)
            .any(|found| found.eq_ignore_ascii_case(element.as_bytes()))
    }

    /// Whether `name` (lower case) stands there once, and its value is `value`, in whatever case.
    pub fn is_only(&self, name: &str, value: &str) -> bool {
        self.one(name)
            .is_some_and(|found| found.eq_ignore_ascii_case(value.as_bytes()))
    }
}
