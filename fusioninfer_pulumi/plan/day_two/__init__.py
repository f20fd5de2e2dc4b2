"""What a service needs while it runs: disruption budgets, monitors."""
