"""What is known without privacy: attributes and domains, tables of records, supports and workloads."""
