"""Speed and memory beside the libraries people use today: one module per benchmark, each with `run(quick) -> rows`."""
