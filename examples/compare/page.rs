//! The sections of a Markdown page that this tool writes: each between two comments. All else is written by people.

use anyhow::{Context, Result};

const END: &str = "<!-- end -->";

/// The head of a column of words.
pub(crate) const REMARKS: &str = "remarks";

/// The page with another text in the section of this name.
///
/// # Errors
/// Where the page has no such section.
pub(crate) fn replaced(page: &str, name: &str, text: &str) -> Result<String> {
    let begin = format!("<!-- generated: {name} -->");
    let (before, rest) = page
        .split_once(&begin)
        .with_context(|| format!("the page has no line \"{begin}\", which says where this belongs"))?;
    let (_, after) =
        rest.split_once(END).with_context(|| format!("the page has no line \"{END}\" after \"{begin}\""))?;
    Ok(format!("{before}{begin}\n\n{}\n\n{END}{after}", text.trim()))
}

/// A table; the first column is of names, the others are of figures, but for remarks.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let escaped = |cell: &str| cell.replace('|', "\\|").replace('\n', " ");
    let mut out = line(&head.iter().copied().map(escaped).collect::<Vec<_>>());
    let rule = |(column, name): (usize, &&str)| {
        let of_words = column == 0 || *name == REMARKS;
        if of_words { "---" } else { "---:" }.to_owned()
    };
    out.push_str(&line(&head.iter().enumerate().map(rule).collect::<Vec<_>>()));
    for row in rows {
        out.push_str(&line(&row.iter().map(|cell| escaped(cell)).collect::<Vec<_>>()));
    }
    out
}

/// What a figure is written as, or a dash where there is none.
pub(crate) fn cell<T>(figure: Option<T>, write: impl Fn(T) -> String) -> String {
    figure.map_or_else(|| "–".to_owned(), write)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# Title\n<!-- generated: a -->\nold\n<!-- end -->\nprose\n<!-- generated: b -->\n<!-- end -->\n";

    #[test]
    fn only_the_section_of_that_name_changes() {
        let page = replaced(PAGE, "a", "new\n").unwrap();
        let expected = PAGE.replace("-->\nold\n", "-->\n\nnew\n\n");
        assert_eq!(page, expected);
        assert_eq!(replaced(&page, "a", "new").unwrap(), page, "once more changes nothing");
        assert!(replaced(PAGE, "b", "x").unwrap().ends_with("<!-- generated: b -->\n\nx\n\n<!-- end -->\n"));
    }

    #[test]
    fn a_page_without_the_section_is_refused() {
        assert!(replaced(PAGE, "c", "x").unwrap_err().to_string().contains("<!-- generated: c -->"));
        assert!(replaced("<!-- generated: a -->", "a", "x").is_err());
    }

    #[test]
    fn what_is_in_a_cell_cannot_leave_it() {
        let rows = [vec!["a|b".to_owned(), "c\nd".to_owned()]];
        assert_eq!(table(&["x", "y"], &rows), "| x | y |\n| --- | ---: |\n| a\\|b | c d |\n");
    }
}
