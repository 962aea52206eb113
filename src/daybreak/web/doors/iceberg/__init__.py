"""The Iceberg REST catalog, read only.

https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml
"""
