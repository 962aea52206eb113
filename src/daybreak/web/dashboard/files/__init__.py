"""Files: the published files of one account, with downloads and previews."""
