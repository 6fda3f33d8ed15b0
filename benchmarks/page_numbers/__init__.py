"""Numbers in running text and in tables written by hand: each stands at its place in a committed result, or is declared to be no result.

    python -m benchmarks.page_numbers            # what is wrong, numbers without a place, and where each may come from
    python -m benchmarks.page_numbers --write    # results have changed: put them into their sentences

`pages` says what of a page is looked at, and which numbers are no results by their form. Modules named after what they are about bind sentences to places in
committed files (`places.Told`). `settings.toml` lists pieces of text whose numbers nobody measured here, and those that a test has.
"""
