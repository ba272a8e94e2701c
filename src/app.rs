//! `App::bind(config)` then `App::run(shutdown)`: the composition root.
