//! Whether the broker lets Leveret publish a message in another user's name.

use crate::amqp::failure::Failure;

/// What is known of it. Found out with the first message that needs it, since asking costs a refused publish,
/// which the broker logs as an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Users {
    own: String,
    impersonates: Option<bool>,
}

impl Users {
    /// Leveret's own user name.
    pub(super) fn new(own: &str) -> Self {
        Self { own: own.to_owned(), impersonates: None }
    }

    /// Whether a message of that `user_id` is worth publishing as it is.
    pub(super) fn may_restore(&self, user: &str) -> bool {
        user == self.own || self.impersonates != Some(false)
    }

    /// Whether publishing it will find out: then it must go alone.
    pub(super) fn is_trial(&self, user: &str) -> bool {
        user != self.own && self.impersonates.is_none()
    }

    /// The broker took a message of that `user_id`.
    pub(super) fn accepted(&mut self, user: &str) {
        if user != self.own {
            self.impersonates = Some(true);
        }
    }

    /// The broker refused a message of that `user_id`; tells whether for that.
    pub(super) fn refused(&mut self, user: &str, failure: &Failure) -> bool {
        let for_user = user != self.own
            && matches!(failure, Failure::Channel { code: 406, text } if text.contains("user_id"));
        if for_user {
            self.impersonates = Some(false);
        }
        for_user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refusal_teaches() {
        let mut users = Users::new("leveret");
        assert!(users.may_restore("app") && users.is_trial("app"));
        let other = Failure::Channel { code: 406, text: "PRECONDITION_FAILED - message size".to_owned() };
        assert!(!users.refused("app", &other));
        let failure = Failure::Channel {
            code: 406,
            text: "PRECONDITION_FAILED - user_id property set to 'app' but authenticated user was 'leveret'"
                .to_owned(),
        };
        assert!(users.refused("app", &failure));
        assert!(!users.may_restore("app") && !users.is_trial("app"));
        assert!(users.may_restore("leveret"));
    }
}
