//! A scrape in Prometheus's text format.

/// One line of a scrape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: f64,
}

/// What a scrape said.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Metrics(pub(crate) Vec<Sample>);

impl Metrics {
    /// Reads a scrape; panics on what is not one.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(|line| sample(line).unwrap_or_else(|| panic!("not a sample: {line:?}"))).collect())
    }

    /// The sum of the samples of that name with at least these labels; 0 where there is none.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |sample: &Sample, (label, value): (&str, &str)| {
            sample.labels.iter().any(|(name, other)| name == label && other == value)
        };
        let of_interest =
            |sample: &&Sample| sample.name == name && labels.iter().all(|&label| has(sample, label));
        self.0.iter().filter(of_interest).map(|sample| sample.value).sum()
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, labels)) = series.split_once('{') else {
        return Some(Sample { name: series.to_owned(), labels: Vec::new(), value });
    };
    let mut rest = labels.strip_suffix('}')?;
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, quoted) = rest.split_once("=\"")?;
        let (text, after) = unquote(quoted)?;
        labels.push((label.to_owned(), text));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Splits after the closing quote.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = quoted.char_indices();
    loop {
        match characters.next()? {
            (at, '"') => return Some((text, &quoted[at + 1..])),
            (_, '\\') => text.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            (_, other) => text.push(other),
        }
    }
}
