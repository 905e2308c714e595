//! The executable of [`cli_agent`].

fn main() {
    cli_agent::main()
}
