//! The tools that come with Bob.
