//! The database of `store.kind = "postgres"`.

use std::path::PathBuf;

use super::Environment;
use super::bad_tests::{refused, told};
use super::config_tests::{MODEL, accepted};

#[test]
fn the_url_of_a_database_is_shown_without_its_password_and_is_a_secret() {
    let environment =
        Environment::from([("DATABASE_URL", "postgres://ann:geheim@db.example:6432/bob?sslmode=require")]);
    let config = accepted(&format!("{MODEL}[store]\nkind = 'postgres'\nurl = '${{DATABASE_URL}}'\n"), &environment);
    assert_eq!(config.store_path(), None);
    assert_eq!(config.store_shown(), "postgres://db.example:6432/bob");
    assert_eq!(config.beside_store(), Some(PathBuf::from("conf/.bob")));
    assert!(!format!("{config:?}").contains("geheim"));
    let secrets = config.secrets();
    let is_secret = |text: &str| secrets.iter().any(|secret| secrecy::ExposeSecret::expose_secret(secret) == text);
    assert_eq!((is_secret("geheim"), is_secret("ann"), is_secret("require")), (true, false, false));
    for (url, shown) in [
        ("postgres://h/d", "postgres://h/d"),
        ("postgres://u:p%40@h:1/d?options=-csearch_path%3Dx", "postgres://h:1/d"),
        ("postgresql://u@h", "postgres://h"),
        // Passwords that should have been encoded.
        ("postgres://ann:ge#heim@h/d", "postgres://h/d"),
        ("postgres://ann:ge?heim@h/d?sslmode=require", "postgres://h/d"),
        ("postgres://ann:ge/heim@h:1/d", "postgres://h:1/d"),
        ("postgres://ann:ge@heim@h/d", "postgres://h/d"),
    ] {
        assert_eq!(super::database_shown(url), shown);
    }
    for (url, passwords) in [
        ("postgres://ann:ge#heim@h/d", &["ge#heim"][..]),
        ("postgres://ann:ge/he?im@h/d", &["ge/he?im"]),
        ("postgres://ann:ge@heim@h/d?a=b@c", &["ge", "ge@heim"]),
        ("postgres://ann@h:5432/d", &[]),
        ("postgres://h:5432/d", &[]),
        ("postgres://ann:@h/d", &[]),
    ] {
        assert_eq!(super::confided::passwords(url).collect::<Vec<_>>(), passwords, "{url}");
    }
    let bad = refused(&format!("{MODEL}[store]\nkind = 'postgres'\nurl = 'sessions:geheim'\n"), &environment);
    let bad = told(&bad);
    assert!(bad.contains("`store.url` must have the form postgres://USER:PASSWORD@HOST:PORT/DATABASE"), "{bad}");
    assert!(!bad.contains("geheim"), "{bad}");
    let missing = told(&refused(&format!("{MODEL}[store]\nkind = 'postgres'\n"), &environment));
    assert!(missing.contains("4:8 `store.url` is missing, the address of the database"), "{missing}");
}
