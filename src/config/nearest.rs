//! "Did you mean": the nearest valid name to one that is not valid.

/// The candidate that the word was probably meant to be, where one is near enough.
pub(super) fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // A third of the letters may be wrong: enough for a slip, too little to turn one word into another.
    let tolerated = (word.chars().count() / 3).clamp(1, 4);
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The end of an error text about a name that is not valid: the nearest name, or else all of them.
pub(super) fn hint(word: &str, candidates: &[&str]) -> String {
    nearest(word, candidates.iter().copied()).map_or_else(
        || format!("valid here: {}", candidates.join(", ")),
        |candidate| format!("did you mean `{candidate}`?"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_leaves_other_words_alone() {
        let names = ["topic", "fanout", "headers", "direct"];
        assert_eq!(nearest("topik", names), Some("topic"));
        assert_eq!(nearest("Direct", names), Some("direct"));
        assert_eq!(nearest("fnaout", names), Some("fanout"));
        assert_eq!(nearest("x-delayed-message", names), None);
        assert_eq!(hint("queue", &names), "valid here: topic, fanout, headers, direct");
    }
}
