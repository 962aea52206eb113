"""Tables of accounts in the Iceberg format, version 2. https://iceberg.apache.org/spec/"""
