"""The keys of config.data that only families/views reads."""

KEYS = {
    # Of training pairs, other ones each epoch, such as 'case(capitals=0.1, lower=0.1)',
    # 'typos(share=0.2, rate=0.05)' and 'subwords(alpha=0.1)', separated by commas.
    "data.views": "",
    "data.num_views": [8, "at least 1"],  # epoch e reads view e mod num_views
}
