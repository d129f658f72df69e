//! What is wrong with a configuration: all of it, each with the place where it is.

use std::cell::RefCell;
use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: the path in the file (`bridges[1].entry.type`), the environment variable, or the file itself.
    pub place: String,
    /// What is wrong and what to do. Never shows a secret.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            f.write_str(&self.text)
        } else {
            write!(f, "{}: {}", self.place, self.text)
        }
    }
}

/// Everything that is wrong with a configuration; `Display` writes one a line. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<Problem>);

impl ConfigErrors {
    pub(super) fn one(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self(vec![Problem { place: place.into(), text: text.into() }])
    }

    /// Each thing that is wrong.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let line_break = if index == 0 { "" } else { "\n" };
            write!(f, "{line_break}{problem}")?;
        }
        Ok(())
    }
}

/// Collects problems while the configuration is read on.
#[derive(Default)]
pub(super) struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub(super) fn add(&self, place: impl Into<String>, text: impl Into<String>) {
        let problem = Problem { place: place.into(), text: text.into() };
        let mut problems = self.0.borrow_mut();
        // Two rules may find the same thing; the operator needs it once.
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    /// The value, unless something was wrong.
    pub(super) fn unless_any<T>(self, value: T) -> Result<T, ConfigErrors> {
        let problems = self.0.into_inner();
        if problems.is_empty() { Ok(value) } else { Err(ConfigErrors(problems)) }
    }
}
