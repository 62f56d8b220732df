def clamped_excess(*a): raise NotImplementedError
group_excess = log_of_ratio = total_excess = calibrated_group = calibrated_total = clamped_excess
