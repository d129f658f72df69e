//! Patterns of exchange names.

use std::fmt;

/// A pattern of exchange names, in which `*` stands for any text, also none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangePattern(String);

impl ExchangePattern {
    /// Takes the pattern as it is written; every text is a pattern.
    #[must_use]
    pub const fn new(pattern: String) -> Self {
        Self(pattern)
    }

    /// The pattern as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole name fits the pattern.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        // The earliest place for each middle part leaves the most room for those that follow.
        for part in parts {
            let Some((_, after)) = rest.split_once(part) else { return false };
            rest = after;
        }
        rest.ends_with(last)
    }
}

impl fmt::Display for ExchangePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        ExchangePattern::new(pattern.to_owned()).matches(name)
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, name) in [
            ("orders", "orders"),
            ("orders.*", "orders.eu"),
            ("*", ""),
            ("*.eu", "a.b.eu"),
            ("a*b*c", "a-b-b-c"),
            ("**", "x"),
            ("", ""),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("orders", "orders.eu"),
            ("orders.*", "orders"),
            ("ab*ba", "aba"),
            ("a*b*c", "acb"),
            ("", "x"),
            ("Orders", "orders"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    /// The textbook definition, which is obvious and slow.
    fn matches_by_definition(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], _) => name.is_empty(),
            (['*', rest @ ..], _) => (0..=name.len()).any(|skip| matches_by_definition(rest, &name[skip..])),
            ([c, pattern @ ..], [d, name @ ..]) => c == d && matches_by_definition(pattern, name),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab*é]{0,8}", name in "[abé]{0,8}") {
            let (p, n): (Vec<_>, Vec<_>) = (pattern.chars().collect(), name.chars().collect());
            prop_assert_eq!(matches(&pattern, &name), matches_by_definition(&p, &n));
        }
    }
}
