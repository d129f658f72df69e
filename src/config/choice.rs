//! Settings that are one of a few names: the name in the file and the Rust variant are written once, together.

/// A setting that is one of a few names.
pub(super) trait Choice: Copy + 'static {
    /// Every variant with its name in the file.
    const ALL: &'static [(&'static str, Self)];
}

/// Declares an enum together with the names that the file uses for its variants.
macro_rules! choices {
    ($(
        $(#[$meta:meta])*
        pub enum $type:ident { $( $(#[$variant_meta:meta])* $variant:ident = $name:literal, )+ }
    )+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $type { $( $(#[$variant_meta])* $variant, )+ }

        impl $type {
            /// Every name that the file may use, in the order of the documentation.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The name in the file.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $name, )+ }
            }
        }

        impl Choice for $type {
            const ALL: &'static [(&'static str, Self)] = &[$(($name, Self::$variant)),+];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+};
}

choices! {
    /// The type of the queues that Leveret declares for itself.
    pub enum QueueType {
        /// Replicated; the default.
        Quorum = "quorum",
        /// Not replicated.
        Classic = "classic",
    }

    /// How the content of bundles is compressed.
    pub enum Compression {
        /// As it is.
        None = "none",
        /// By zstd, each bundle on its own.
        Zstd = "zstd",
    }

    /// How several replicas share the work of one bridge.
    pub enum Ordering {
        /// All replicas consume side by side.
        Parallel = "parallel",
        /// One replica consumes at a time, so messages with equal delay keep their order.
        Single = "single",
    }

    /// The type of an entry exchange.
    pub enum EntryKind {
        /// Bound to the ingress queue by `#`.
        Topic = "topic",
        /// Bound once; routing keys do not count.
        Fanout = "fanout",
        /// Bound by an empty match.
        Headers = "headers",
        /// Bound by each of the listed keys.
        Direct = "direct",
    }

    /// What happens to a message that its target routes to no queue.
    pub enum Unroutable {
        /// Moved to the parked queue, with the reason.
        Park = "park",
        /// Dropped and counted.
        Drop = "drop",
    }

    /// What becomes of the `x-delay` header at delivery.
    pub enum DeliveredHeader {
        /// `x-delay: 5000` comes out as `x-delay: -5000`.
        Negate = "negate",
        /// Comes out as it was published.
        Keep = "keep",
        /// Does not come out.
        Remove = "remove",
    }

    /// The format of log lines.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}
