//! How to say what a configuration may look like: the forms of values, and sections of keys.
//!
//! From the table in `keys` come the refusal of unknown keys, the names of environment variables and the JSON Schema.

/// The form of a value.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Text,
    Bool,
    /// A whole number from the first to the second, both included.
    Integer(u64, u64),
    /// Text such as `30s`.
    Duration,
    /// Bytes as a number, or text such as `256KiB`.
    Size,
    /// One of a few names.
    Choice(&'static [&'static str]),
    List(&'static Self),
    Section(&'static [Key]),
    AnyOf(&'static [Self]),
}

/// One key of a section.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// As YAML; empty where there is no default.
    pub(super) default: &'static str,
    /// Whether its section is not valid without it.
    pub(super) required: bool,
    pub(super) doc: &'static str,
}

impl Shape {
    /// The keys of a section, also where a section is only one of several forms.
    pub(super) fn keys(&self) -> &'static [Key] {
        match self {
            Self::Section(keys) => keys,
            Self::AnyOf(shapes) => shapes
                .iter()
                .find_map(|shape| Some(shape.keys()).filter(|keys| !keys.is_empty()))
                .unwrap_or_default(),
            _ => &[],
        }
    }

    /// The form of a list's items, also where a list is only one of several forms.
    pub(super) fn item(&self) -> Option<&'static Self> {
        match self {
            Self::List(item) => Some(item),
            Self::AnyOf(shapes) => shapes.iter().find_map(Self::item),
            _ => None,
        }
    }

    /// Calls `visit` with the path of every key below this one; a list's items are the segment `#`.
    pub(super) fn for_each_path(
        &self,
        path: &mut Vec<&'static str>,
        visit: &mut impl FnMut(&[&'static str]),
    ) {
        for key in self.keys() {
            path.push(key.name);
            visit(path);
            key.shape.for_each_path(path, visit);
            path.pop();
        }
        if let Some(item) = self.item() {
            path.push("#");
            visit(path);
            item.for_each_path(path, visit);
            path.pop();
        }
    }
}
