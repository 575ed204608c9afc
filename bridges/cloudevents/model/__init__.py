"""Values that the rooms of subscriptions share: JSON, the parts of a subscription, and mistakes in them. Pure.

`values` has the types, `strict_json` reads a JSON text, `members` reads the members of its objects. The room uses
`policies.values.units` and no other room of subscriptions.
"""
