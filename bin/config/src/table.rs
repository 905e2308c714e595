//! How the structs of the schema are written: each key with its type, its default and its rule, once.

/// Declares the keys of a struct: each with its type, its default (without one it is required), and after `=>` the
/// rule for its value. `as` sets the name in the file if it differs from the field; `as ""` flattens a part into the
/// table. Fields without a key come from the expression after `..`. With `default` in front, defaults come from the
/// struct's `Default`.
macro_rules! keys {
    ($name:ident {
        $($field:ident $(as $key:literal)?: $kind:ty $(= $default:expr)? $(=> $rule:expr)?,)*
        $(..$rest:expr)?
    }) => {
        impl $crate::read::Read for $name {
            const KEYS: &'static [$crate::keys::Key] = &[$($crate::keys::Key {
                name: $crate::table::keys!(@name $field $($key)?),
                rule: $crate::table::keys!(@rule $($rule)?),
                below: <$kind as $crate::read::Read>::KEYS,
                is_many: <$kind as $crate::read::Read>::IS_MANY,
            },)*];

            fn read(item: &$crate::tree::Item<'_>, reader: &mut $crate::read::Reader<'_>) -> Option<Self> {
                let table = reader.table(item, Self::KEYS)?;
                let mut keys = Self::KEYS.iter();
                $(let $field: Option<$kind> =
                    reader.field(table, item, keys.next()?, $crate::table::keys!(@default $($default)?));)*
                Some(Self { $($field: $field?,)* $(..$rest)? })
            }
        }
    };
    (default $name:ident { $($field:ident: $kind:ty $(=> $rule:expr)?,)* $(..$rest:expr)? }) => {
        $crate::table::keys! { $name { $($field: $kind = $name::default().$field $(=> $rule)?,)* $(..$rest)? } }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $key:literal) => { $key };
    (@rule) => { $crate::keys::Rule::Any };
    (@rule $rule:expr) => { $rule };
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
}
pub(super) use keys;

/// Defines a table of the configuration and its keys.
macro_rules! table {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* pub $field:ident $(as $key:literal)?: $kind:ty $(= $default:expr)? $(=> $rule:expr)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name { $($(#[$field_meta])* pub $field: $kind,)* }

        $crate::table::keys! { $name { $($field $(as $key)?: $kind $(= $default)? $(=> $rule)?,)* } }
    };
}
pub(super) use table;

/// Defines a table of which every key has a default: each is written once and serves the missing key and the missing table.
macro_rules! section {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* pub $field:ident $(as $key:literal)?: $kind:ty = $default:expr $(=> $rule:expr)?,)*
    }) => {
        $crate::table::table! {
            $(#[$meta])*
            pub struct $name { $($(#[$field_meta])* pub $field $(as $key)?: $kind = $default $(=> $rule)?,)* }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}
pub(super) use section;
