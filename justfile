# Shortcuts; each is also one plain command. `just` without a name lists them.

_list:
    @just --list

# Everything that must hold before a merge; changes no file
verify:
    .ci/run

# Hours of fuzzing, seeds, and soaks; for every night, not for every change
night *seed:
    sh scripts/night.sh {{seed}}

# Format check, and clippy with warnings as errors
lint:
    cargo fmt --all -- --check
    cargo clippy --workspace --all-targets --all-features -- -D warnings

# Format, and apply what clippy can repair by itself
fix:
    cargo fmt --all
    cargo clippy --fix --allow-dirty --allow-staged --workspace --all-targets --all-features

# All tests
test:
    cargo test --workspace --all-features

# All tests named fuzz_, for so many seconds of a processor in all
fuzz seconds="60":
    scripts/fuzz.sh {{seconds}}

# Bob and its peers on the same turns, in one table; builds the peers. `just race --rounds=1 --percent=10` is quick
race *options:
    cargo build --release --manifest-path benches/peers/Cargo.toml --target-dir target/peers
    cargo bench --bench race -- {{options}}

# Whether a turn costs more than it did; `just growth --accept` takes what it costs now
growth *options:
    sh scripts/growth.sh {{options}}

# The API documentation, with its warnings as errors
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

# Start the small local language model (installed on first use)
model *options:
    sh scripts/local-model.sh {{options}}
