"""What every matching engine offers, and the tables that engines are given."""
